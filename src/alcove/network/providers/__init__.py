"""Network providers: what each type of network is made of, one file per type.

base      the interface of a provider, and the list that finds one
flat      flat networks: a number each, one range of addresses for all
vpc       networks of type vpc and mizar: a VPC each; `vpc_plan` decides what it needs
all       the list
"""
