"""Only what setup.cfg cannot say: every package under xmc/, and conf/ beside it as ``xmc.conf``."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["xmc", "xmc.*"]), "xmc.conf"],
    package_dir={"xmc.conf": "conf"},
    package_data={"xmc.conf": ["*.yaml", "*/*.yaml"]},
)
