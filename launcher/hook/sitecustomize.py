"""What Python imports when it starts becomes the annotations and the user's own `sitecustomize`.

The launcher puts this folder in front of PYTHONPATH. The folder leaves `sys.path` again at once, so
that nothing in it hides anything of the workload's, and the next `sitecustomize` on the path runs
as if this one were not there. It may start any Python: nothing here needs a recent one.
"""

import contextlib
import os
import sys

_folder = os.path.dirname(os.path.abspath(__file__))
# The launcher looks for it, to tell a hook that found nothing from one that never ran.
with contextlib.suppress(OSError):
    os.close(os.open(os.path.join(_folder, "loaded"), os.O_WRONLY | os.O_CREAT, 0o600))
if sys.version_info >= (3, 8):  # noqa: UP036
    try:
        import stage2_annotate

        stage2_annotate.start(os.environ)
    except Exception as error:
        sys.stderr.write("stage2: the workload is not annotated: %r\n" % (error,))  # noqa: UP031
else:
    sys.stderr.write("stage2: the workload is not annotated: Python 3.8 or newer is needed\n")

sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _folder]
_this = sys.modules.pop("sitecustomize", None)
try:
    # What is found now is the user's own; its errors are the user's, and are not caught.
    import sitecustomize  # noqa: F401
except ImportError as error:
    if getattr(error, "name", "sitecustomize") != "sitecustomize":
        raise
finally:
    if _this is not None:
        # The import system wants to find under this name what it began to import.
        sys.modules.setdefault("sitecustomize", _this)
