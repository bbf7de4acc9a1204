"""What a machine can do, measured: the ceilings that training is compared with."""
