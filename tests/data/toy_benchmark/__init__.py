"""A toy: one dense layer finds the sum of its inputs. The smallest benchmark there can be, copied by a test."""

from hpcai.workloads.declaration import Declaration

WORKLOAD = Declaration(settings="settings:ToyBenchmark", data="data:ToyDataModule", training="training:Toy")
