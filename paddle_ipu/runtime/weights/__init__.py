"""Where the newest value of each weight is: in the Scope, or on a device."""
