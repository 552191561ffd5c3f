"""A program that makes one system call and exits with the error's number: zero if the call succeeded.

Assembled byte by byte, so that containers can be tested from inside without a compiler or a library.
"""

import platform
from struct import pack

SUPPORTED = platform.machine() == "x86_64"
_BASE = 0x400000
_HEADERS_BYTES = 64 + 56
_REGISTERS = (b"\x48\xbf", b"\x48\xbe", b"\x48\xba", b"\x49\xba", b"\x49\xb8", b"\x49\xb9")
"""Loads of rdi, rsi, rdx, r10, r8, r9."""
_EXIT = (
    b"\x0f\x05"  # syscall
    b"\x89\xc7"  # mov edi, eax
    b"\xf7\xdf"  # neg edi
    b"\x48\x85\xc0"  # test rax, rax
    b"\x78\x02"  # js over the next instruction
    b"\x31\xff"  # xor edi, edi
    b"\xb8\x3c\x00\x00\x00"  # mov eax, exit
    b"\x0f\x05"  # syscall
)

NUMBERS = {
    "mount": 165,
    "umount2": 166,
    "ptrace": 101,
    "unshare": 272,
    "setns": 308,
    "keyctl": 250,
    "bpf": 321,
    "init_module": 175,
    "kexec_load": 246,
    "pivot_root": 155,
    "clone": 56,
    "clone3": 435,
    "socket": 41,
    "io_uring_setup": 425,
    "userfaultfd": 323,
    "perf_event_open": 298,
    "settimeofday": 164,
    "reboot": 169,
    "swapon": 167,
    "open_by_handle_at": 304,
    "getpid": 39,
    "fsopen": 430,
    "mknod": 133,
    "sethostname": 170,
    "add_key": 248,
    "iopl": 172,
    "acct": 163,
    "quotactl": 179,
    "process_vm_readv": 310,
}


def program(call: str, *arguments: int | bytes) -> bytes:
    """The ELF file. Bytes are passed by their address, with a zero after them."""
    load = b"\x48\xb8" + pack("<Q", NUMBERS[call])
    strings_at = _BASE + _HEADERS_BYTES + len(load) + 10 * len(arguments) + len(_EXIT)
    strings = b""
    for register, argument in zip(_REGISTERS, arguments, strict=False):
        if isinstance(argument, bytes):
            value = strings_at + len(strings)
            strings += argument + b"\0"
        else:
            value = argument & (2**64 - 1)
        load += register + pack("<Q", value)
    content = load + _EXIT + strings
    size = _HEADERS_BYTES + len(content)
    identity = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    header = identity + pack("<HHIQQQIHHHHHH", 2, 62, 1, _BASE + _HEADERS_BYTES, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + content
