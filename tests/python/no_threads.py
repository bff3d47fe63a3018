"""What a program runs first whose every new thread the kernel has to refuse."""

NO_THREADS = """
import ctypes, platform, struct, sys

def refuse(call, libc=ctypes.CDLL(None), again=11):
    rules = [(0x20, 0, 0, 0), (0x15, 0, 1, call)]
    rules += [(6, 0, 0, 0x50000 | again), (6, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *r) for r in rules))
    program = ctypes.create_string_buffer(struct.pack("H6xP", 4, ctypes.addressof(code)))
    return libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0

clone, clone3 = {"x86_64": 56, "aarch64": 220}[platform.machine()], 435
if not (refuse(clone) and refuse(clone3)):
    print("cannot filter calls here")
    sys.exit()
"""
