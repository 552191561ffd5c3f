"""The VPC provider: VPCs, subnets, endpoints, bouncers, dividers and droplets.

It knows neither tenants nor pods: a caller that needs an address names a subnet and describes the purpose.
All state is in API objects; this package keeps only indexes over them, which are rebuilt at every start.
"""
