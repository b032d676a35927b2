"""What differs between operating systems, one matter a file, each with what stands in for it.

Other packages ask here instead of using ``fcntl``, ``os.sched_getaffinity``, ``ctypes.CDLL(None)``
or ``/proc``, which some systems do not have. Nothing here imports anything but Python's library.
"""
