"""Run a program on a terminal of a size, press keys, and print how it ended and what it wrote.

    on_a_terminal.py ROWS COLUMNS KEYS AWAITED PROGRAM WORD...

KEYS is a text, or SIGTERM: they come when the program has filled the screen and rests. Where
AWAITED is not empty, it is a pattern of files: when there is one, `q` is pressed.
"""

import fcntl
import glob
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

TIME_LIMIT_S = 60
# Nothing is written for so long between two screens.
REST_S = 0.05
rows, columns, keys, awaited = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
sized, told_size = os.pipe()
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.read(sized, 1)
    os.execv(sys.argv[5], sys.argv[5:])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
os.write(told_size, b"!")
before = termios.tcgetattr(terminal)
written, began, told = b"", time.time(), False
while time.time() - began < TIME_LIMIT_S:
    rests = not select.select([terminal], [], [], REST_S)[0]
    if not rests:
        try:
            got = os.read(terminal, 65536)
        except OSError:
            break
        if not got:
            break
        written += got
    if told and awaited and glob.glob(awaited):
        awaited = ""
        time.sleep(1)
        os.write(terminal, b"q")
    if not told and rests and b"\x1b[?1049h" in written:
        told = True
        if keys == "SIGTERM":
            os.kill(pid, signal.SIGTERM)
            continue
        for key in keys:
            os.write(terminal, key.encode())
            time.sleep(0.1)
if not told or awaited:
    os.kill(pid, signal.SIGKILL)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
same = termios.tcgetattr(terminal)[3] == before[3]
print("status", status, "same", same, flush=True)
sys.stdout.buffer.write(written)
