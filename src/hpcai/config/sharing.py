"""How the instances of a weak-scaling group share a machine: nodes are filled in turn, nothing is shared."""

from collections.abc import Sequence
from dataclasses import dataclass

from hpcai.config.machine import Machine


@dataclass(frozen=True)
class Sharing:
    """Where instances of one size go: each block of nodes is filled before the next.

    Attributes
    ----------
    nodes, ranks_per_node
        Size of one instance.
    instances
        Number of instances.
    per_block
        Instances that fit on one block, which is as many nodes as one instance has.
    cores_per_instance
        Cores of an instance on each of its nodes.
    """

    nodes: int
    ranks_per_node: int
    instances: int
    per_block: int
    cores_per_instance: int

    @classmethod
    def of(cls, machine: Machine, nodes: int, ranks_per_node: int, instances: int) -> "Sharing":
        """Share a machine whose ``ranks_per_node`` says how many ranks a node takes."""
        per_block = machine.ranks_per_node // ranks_per_node
        return cls(nodes, ranks_per_node, instances, per_block, ranks_per_node * machine.cores_per_rank)

    @property
    def nodes_needed(self) -> int:
        """Nodes of all instances together."""
        return -(-self.instances // self.per_block) * self.nodes

    @property
    def cores_needed(self) -> int:
        """Cores of the fullest node that the instances use."""
        return min(self.instances, self.per_block) * self.cores_per_instance

    def most_instances(self, nodes: int) -> int:
        """Return how many instances fit on so many nodes."""
        return nodes // self.nodes * self.per_block

    def hosts_of(self, number: int, hosts: Sequence[str]) -> tuple[str, ...]:
        """Return the nodes of an instance, counted from 1."""
        first = (number - 1) // self.per_block * self.nodes
        return tuple(hosts[first : first + self.nodes])

    def cores_of(self, number: int, cores: Sequence[int]) -> tuple[int, ...]:
        """Return the cores of an instance on each of its nodes, of those that may be used there."""
        first = (number - 1) % self.per_block * self.cores_per_instance
        return tuple(cores[first : first + self.cores_per_instance])

    def accelerators_of(self, number: int, accelerators: Sequence[str]) -> tuple[str, ...]:
        """Return the accelerators of an instance on each of its nodes: one for each rank."""
        first = (number - 1) % self.per_block * self.ranks_per_node
        return tuple(accelerators[first : first + self.ranks_per_node])
