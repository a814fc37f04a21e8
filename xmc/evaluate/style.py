"""The style sheet of the HTML report: phone, desktop, print; light and dark."""

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--card:#f6f7f9;--ink:#1b1f24;--soft:#57606a;--line:#d5dae0;
--good:#116329;--bad:#a40e26;--link:#0550ae;--s0:#0060a8;--s1:#b54708;--s2:#0a7a5a;--s3:#8b3a86}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--card:#1e2329;--ink:#e6e9ed;--soft:#a0a9b4;
--line:#3b434d;--good:#5fd080;--bad:#ff8a8a;--link:#79b8ff;--s0:#6cb4f5;--s1:#f5a25d;--s2:#58cfa5;--s3:#d79bd3}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:1rem 1rem 3rem;max-width:76rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.2;margin:.4rem 0 .6rem}
h2{font-size:1.25rem;margin:2.6rem 0 .4rem;padding-top:.5rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.2rem 0 .3rem}
p,.note{max-width:46rem}
.note,caption,figcaption,.unit,dt{color:var(--soft);font-size:.875rem}
a{color:var(--link)}
nav{font-size:.9rem;display:flex;flex-wrap:wrap;gap:.2rem 1rem;margin:.6rem 0}
nav a{padding:.25rem 0}
dl{display:grid;grid-template-columns:auto 1fr;gap:.1rem .9rem;margin:.6rem 0;font-size:.875rem}
dd{margin:0;min-width:0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.2rem,1fr));gap:.6rem;padding:0;list-style:none}
.tiles li{background:var(--card);border-radius:.5rem;padding:.6rem .8rem}
.tiles strong{display:block;font-size:1.5rem;line-height:1.25;font-variant-numeric:tabular-nums}
.tiles span{display:block;font-size:.85rem}
.tiles .unit{font-size:.8rem;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;margin:.4rem 0}
caption{text-align:left;padding:.2rem 0}
th,td{padding:.3rem .7rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:top;
overflow-wrap:normal}
th{font-weight:600}
thead th{vertical-align:bottom}
th:first-child,td:first-child{text-align:left;padding-left:0}
td{white-space:nowrap}td:first-child{white-space:normal}
td small,th small{display:block;color:var(--soft);font-weight:400;font-size:.78rem;white-space:nowrap}
td:first-child{overflow-wrap:anywhere;min-width:5.5rem}
.names td:first-child{min-width:12rem}td:first-child small{white-space:normal}
.good{color:var(--good)}.bad{color:var(--bad)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1.2rem}
figure{margin:0;max-width:33rem;break-inside:avoid}
figure svg{display:block;width:100%;height:auto}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1rem;padding:0;margin:.2rem 0;list-style:none;font-size:.85rem}
.legend svg{display:inline-block;width:2rem;height:.75rem;margin-right:.4rem;vertical-align:middle}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr));gap:.8rem}
article{background:var(--card);border-radius:.5rem;padding:.7rem .9rem;min-width:0;break-inside:avoid}
article h3{margin:0;display:flex;justify-content:space-between;gap:1rem;font-size:.95rem}
article h3 span{color:var(--soft);font-weight:400;white-space:nowrap}
article h4{font-size:.8rem;margin:.5rem 0 .1rem;color:var(--soft);font-weight:600}
article p{margin:.3rem 0;font-size:.9rem}
article ol,article ul{margin:0;padding:0;list-style:none;font-size:.9rem}
article li{display:flex;gap:.5rem;align-items:baseline}
article li bdi,article li>span:first-child{min-width:0}
article li span.unit{margin-left:auto;white-space:nowrap;font-variant-numeric:tabular-nums}
details{margin:.6rem 0}
summary{cursor:pointer;padding:.4rem 0;font-weight:600}
@media (max-width:30rem){body{padding:.7rem .7rem 2rem}th,td{padding:.3rem .25rem}table{font-size:.8rem}
td small,th small{font-size:.7rem;letter-spacing:-.02em}td:first-child{min-width:4rem}
.names td:first-child{min-width:8rem}
td:last-child{white-space:normal}
h1{font-size:1.4rem}.tiles{grid-template-columns:repeat(2,1fr)}}
@media print{:root{--paper:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb;--good:#116329;--bad:#a40e26;
--link:#000;--s0:#0060a8;--s1:#b54708;--s2:#0a7a5a;--s3:#8b3a86}
body{max-width:none;padding:0;font-size:10pt}nav{display:none}
article,.tiles li{border:1px solid var(--line)}h2,h3{break-after:avoid}tr{break-inside:avoid}
.scroll{overflow:visible}.plots{grid-template-columns:1fr 1fr}.cards{grid-template-columns:1fr 1fr}
details::details-content{content-visibility:visible;block-size:auto}}
"""
