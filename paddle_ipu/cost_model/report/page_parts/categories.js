// The colours of what is in memory, by its name in a report.

const CATEGORY = {
  "weights": "weights", "optimizer state": "state", "accumulators": "accumulators",
  "constants": "constants", "code": "code", "streams": "streams", "stash": "stash",
  "activations": "activations", "temporaries": "temporaries",
};
