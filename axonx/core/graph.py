"""The dependencies between everything that an Application starts: checked, ordered, injected."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from axonx.components.base import BaseComponent
from axonx.components.dependency import Dependency
from axonx.errors import DependencyError, DependencyTypeError


class Phase(IntEnum):
    """What starts before what, whatever the configuration's order."""

    COMPONENT = 0
    JOB = 1
    SCHEDULER = 2
    SERVICE = 3


@dataclass(frozen=True, slots=True)
class Node:
    """One configured instance."""

    phase: Phase
    category: str
    name: str
    component: BaseComponent

    @property
    def label(self) -> str:
        return f"{self.category}:{self.name}"

    def __str__(self) -> str:
        if self.phase is Phase.COMPONENT:
            return f"Component {self.label}"
        return f"{self.phase.name.capitalize()} {self.name}"


class ComponentGraph:
    """Nodes in the order of the configuration, with the edges that `depend` declared.

    Building one checks everything and changes nothing. Raises `DependencyError` (a `ValueError`) for what
    is missing and for cycles, `DependencyTypeError` (also a `TypeError`) for the wrong class.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = tuple(nodes)
        self._positions = {(node.category, node.name): index for index, node in enumerate(nodes)}
        self._edges = [tuple(self._edges_of(node)) for node in nodes]
        self.order = self._ordered()

    def inject(self) -> None:
        """Give every dependant its instances; from now on `depend` is refused.

        Raises `DependencyError` where a constructor assigned to the attribute after declaring it.
        """
        for node in self._nodes:
            component = node.component
            for dependency in component.declared_dependencies:
                position = self._positions.get((dependency.category, dependency.name))
                if getattr(component, dependency.attribute, None) is not dependency.placeholder:
                    raise DependencyError(
                        f"{node}: {dependency.attribute!r} was assigned after depend(); "
                        "remove the assignment or choose another name"
                    )
                found = None if position is None else self._nodes[position].component
                setattr(component, dependency.attribute, found)
            component.mark_composed()

    def _edges_of(self, node: Node) -> Iterator[int]:
        for dependency in node.component.declared_dependencies:
            position = self._positions.get((dependency.category, dependency.name))
            if position is not None:
                self._check_edge(node, dependency, self._nodes[position])
                yield position
            elif dependency.required:
                names = [other.name for other in self._nodes if other.category == dependency.category]
                raise DependencyError(
                    f"{node} depends on missing {dependency.category}:{dependency.name} "
                    f"(configured under {dependency.category}: {', '.join(names) or 'nothing'})"
                )

    @staticmethod
    def _check_edge(node: Node, dependency: Dependency, target: Node) -> None:
        if not isinstance(target.component, dependency.base_cls):
            raise DependencyTypeError(
                f"Dependency {target.label} must be a {dependency.base_cls.__name__}; "
                f"{node} declares it so, but it is a {type(target.component).__name__}"
            )
        if target.phase > node.phase:
            raise DependencyError(
                f"{node} cannot depend on {target}: components start first, then Jobs, schedulers, service"
            )

    def _ordered(self) -> tuple[Node, ...]:
        """Kahn's algorithm; among what is ready, the earliest phase and position goes first."""
        waiting_for = [len(set(edges)) for edges in self._edges]
        dependants: list[list[int]] = [[] for _ in self._nodes]
        for index, edges in enumerate(self._edges):
            for target in set(edges):
                dependants[target].append(index)
        ready = [(node.phase, index) for index, node in enumerate(self._nodes) if not waiting_for[index]]
        heapq.heapify(ready)
        order = []
        while ready:
            _, index = heapq.heappop(ready)
            order.append(self._nodes[index])
            for dependant in dependants[index]:
                waiting_for[dependant] -= 1
                if not waiting_for[dependant]:
                    heapq.heappush(ready, (self._nodes[dependant].phase, dependant))
        if len(order) < len(self._nodes):
            left = {index for index, count in enumerate(waiting_for) if count}
            raise DependencyError(
                f"Components unresolved due to circular dependencies: {self._cycle_path(left)}"
            )
        return tuple(order)

    def _cycle_path(self, left: set[int]) -> str:
        """One cycle among the unresolved nodes, beginning with its earliest member."""
        walked: list[int] = []
        index = min(left)
        while index not in walked:
            walked.append(index)
            index = min(target for target in self._edges[index] if target in left)
        cycle = walked[walked.index(index) :]
        first = cycle.index(min(cycle))
        path = [*cycle[first:], *cycle[:first], cycle[first]]
        return " -> ".join(self._nodes[position].label for position in path)
