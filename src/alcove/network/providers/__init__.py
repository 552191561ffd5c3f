"""Network providers: how each type of network is provisioned, one file per type.

base      the interface of a provider, and the list that finds one
flat      flat networks: a VNI each, one range of addresses for all
vpc       networks of type vpc and mizar: a VPC each; `vpc_plan` decides what it needs
all       the list
"""
