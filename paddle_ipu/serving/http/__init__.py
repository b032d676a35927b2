"""An HTTP front for batching runners, by the Open Inference Protocol; needs the extra `serving`."""
