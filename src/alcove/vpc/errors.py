"""Errors of the VPC provider.

    VpcError
    ├── RequestRefused        permanent, unless the objects are changed
    │   └── OutOfRange            the address is not usable in its subnet
    └── AddressUnavailable    temporary: retry when something is released or provisioned
        ├── AddressTaken          another endpoint holds the address
        └── RangeFull             all addresses of the subnet are allocated

Messages are shown to the users who wrote the objects: they name what is wrong and where.
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
