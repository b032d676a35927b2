"""BERT on the IPU: pretraining from raw text to a checkpoint, fine-tuning, validation."""
