"""The side panel: rounds, charts and table as pages, with the figures above them and what explains them."""
