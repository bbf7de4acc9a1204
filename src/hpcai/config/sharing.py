"""How the instances of a weak-scaling group share a machine: nodes are filled in turn, and no resource is shared."""

from collections.abc import Sequence
from dataclasses import dataclass

from hpcai.config.machine import Machine


@dataclass(frozen=True)
class Sharing:
    """Placement of instances of one size: each block of nodes is filled before the next.

    Attributes
    ----------
    nodes, ranks_per_node
        Size of one instance.
    instances
        Number of instances.
    per_block
        Instances that fit on one block, which has as many nodes as one instance.
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
        """Share a machine with ``ranks_per_node`` ranks per node."""
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
        """Return the number of instances that fit on some nodes."""
        return nodes // self.nodes * self.per_block

    def hosts_of(self, number: int, hosts: Sequence[str]) -> tuple[str, ...]:
        """Return the nodes of an instance, counted from 1."""
        first = (number - 1) // self.per_block * self.nodes
        return tuple(hosts[first : first + self.nodes])

    def cores_of(self, number: int, cores: Sequence[int]) -> tuple[int, ...]:
        """Return the cores of an instance on each of its nodes, out of those available there."""
        first = (number - 1) % self.per_block * self.cores_per_instance
        return tuple(cores[first : first + self.cores_per_instance])

    def accelerators_of(self, number: int, accelerators: Sequence[str]) -> tuple[str, ...]:
        """Return the accelerators of an instance on each of its nodes: one per rank."""
        first = (number - 1) % self.per_block * self.ranks_per_node
        return tuple(accelerators[first : first + self.ranks_per_node])
