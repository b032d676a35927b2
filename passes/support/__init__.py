"""What several passes share: roles, the loss, gradient changes, parameter updates."""
