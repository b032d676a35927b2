"""What the stage scripts share: settings, programs, training loop, logs and checkpoints."""
