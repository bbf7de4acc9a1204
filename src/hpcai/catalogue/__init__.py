"""What the reports show, declared once: figures and tables."""
