"""BERT pretraining (masked words and next sentence) on the IPU, from raw English text to a checkpoint."""
