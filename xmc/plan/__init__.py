"""What a job will need before it runs: measured on a sample of its documents and labels, and scaled up."""
