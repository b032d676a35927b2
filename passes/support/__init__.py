"""What several passes share: roles, the loss, what changes gradients, what updates parameters."""
