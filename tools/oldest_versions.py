"""Prints the oldest versions of what the package is built on, as pip takes them: onnx==1.17, …

Paddle's versions have environments of their own.
"""

from __future__ import annotations

from paddle_ipu.activation.requirements import REQUIREMENTS

if __name__ == "__main__":
    print(*(f"{required.package}=={required.oldest}" for required in REQUIREMENTS))
