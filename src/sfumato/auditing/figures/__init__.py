"""The papers' tables and figures: each declared once, computed on the papers' tables or on one of one's own."""
