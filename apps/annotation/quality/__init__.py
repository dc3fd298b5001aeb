"""Quality of judgments: agreement, label aggregation, and figures per annotator."""
