"""Why the provider does not do what it is asked to.

    VpcError
    ├── Refused        it never will, as long as the objects are as they are
    │   └── OutOfRange     the address is none of its subnet's
    └── Unavailable    not now; when others let go, it goes on
        ├── Taken          another endpoint has the address
        └── Full           all addresses of the subnet are taken

Messages are for the people who wrote the objects: they name what is wrong and where.
"""


class VpcError(Exception):
    pass


class RequestRefused(VpcError):
    pass


class OutOfRange(RequestRefused):
    pass


class AddressUnavailable(VpcError):
    pass


class AddressTaken(AddressUnavailable):
    pass


class RangeFull(AddressUnavailable):
    pass
