"""The VPC provider: VPCs, subnets, endpoints, bouncers, dividers and droplets.

It knows no tenant and no pod: whoever wants an address names its subnet and says what it is for. Every
fact is an object of the API; what is kept here are indexes over objects, rebuilt at every start.
"""
