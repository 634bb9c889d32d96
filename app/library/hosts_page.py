"""The page of machines that a target can be split over: their list, a test whether they are ready, and whether they are used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QComboBox, QFileDialog, QGridLayout, QLabel, QLineEdit, QWidget

from app.library.background import Background
from app.library.entries import Entry
from app.library.entry_list import EntryList
from app.look.fields import require_focus_for_wheel
from app.look.theme import Theme
from app.look.widgets import choice_box, dialog_button, in_column, in_row, named, stretch, text_label
from app.session.machines import hosts_path, kept_cluster
from app.session.settings import Settings
from engine.cluster.doctor import Finding, check
from engine.cluster.hosts import LOOPBACK, Cluster, Host, cluster_of, read_hosts, write_hosts
from engine.files.whole_file import NotWritten
from engine.rounds.codec import plain
from engine.values.errors import DraftlightError
from engine.values.wording import capitalised

DESCRIPTION = (
    "A target that is too large for this machine can be split over several. Each needs the same version of Draftlight and the "
    "same model, and ssh has to reach it without asking for a password."
)
IN_USE = "These machines are in use. To change them, choose “this machine alone” first."
READY = "These machines can share the target in use."
PLACEHOLDER_HOST = Host(LOOPBACK, ("192.0.2.1",))
"""This machine with a placeholder address, to validate another machine on its own."""
HOST_FILES = "Files of hosts (*.json);;All files (*)"


class HostsPage(QWidget):
    """Edits and tests the list of machines, and switches their use on and off.

    Signals:
        split_requested: (bool) whether targets should run on all the machines.
    """

    split_requested = Signal(bool)

    def __init__(self, background: Background, settings: Callable[[], Settings]) -> None:
        super().__init__()
        self._background, self._settings = background, settings
        self._cluster = Cluster((Host(LOOPBACK),))
        self._problem = ""
        self._message = ""  # of the last action, until the next
        self._findings: tuple[Finding, ...] = ()
        self._testing = 0
        self.location = _choice("Where targets run", (("this machine alone", False), ("all of these machines", True)))
        self.sharding = _choice(
            "How targets are split", (("a part of every layer", "tensor"), ("some of the layers", "pipeline"))
        )
        self.list = EntryList("Machines", "Delete removes the machine.")
        self.state = text_label("entryAbout", selectable=True)
        self.local_address = _field("Address of this machine", "such as 10.0.0.1")
        self.name = _field("Name for ssh", "Name for ssh, such as ada@studio2.local")
        self.address = _field("Its address", "Its address, such as 10.0.0.2")
        self.python = _field("Python on the other machines", "python3")
        self.add = dialog_button("Add", self._add)
        self.test = dialog_button("Test", self._test)
        self.open = dialog_button(
            "Open file…", self._open, "<p>A file of hosts, as mlx.distributed_config writes it, for JACCL, too</p>"
        )
        self.remove = dialog_button("Remove", partial(self._remove, ""))
        self._arrange()
        self.location.currentIndexChanged.connect(self._set_split)
        self.sharding.currentIndexChanged.connect(self._set_sharding)
        self.local_address.editingFinished.connect(self._set_local_address)
        self.python.editingFinished.connect(self._set_python)
        for edit in (self.name, self.address):
            edit.returnPressed.connect(self._add)
            edit.textChanged.connect(lambda _: self._update_enabled())
        self.list.deleted.connect(self._remove)
        self.list.current_changed.connect(lambda _: self._update_enabled())

    def _arrange(self) -> None:
        grid = QGridLayout()
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(3)
        titles = ("Targets run on", "Each machine has", "Address of this machine", "Python on the others")
        for index, (title, control) in enumerate(
            zip(titles, (self.location, self.sharding, self.local_address, self.python), strict=True)
        ):
            label = named(QLabel(title), "entryAbout")
            label.setContentsMargins(0, 4, 0, 0)
            label.setBuddy(control)
            grid.addWidget(label, index // 2 * 2, index % 2)
            grid.addWidget(control, index // 2 * 2 + 1, index % 2)
        in_column(
            text_label("entryAbout", DESCRIPTION, selectable=True),
            grid,
            (self.list, 1),
            in_row((self.name, 3), (self.address, 2), self.add, spacing=8),
            self.state,
            in_row(self.test, self.open, stretch(), self.remove, spacing=8),
            spacing=10,
            parent=self,
        )

    @property
    def in_use(self) -> bool:
        """Whether targets run on these machines."""
        return self._settings().split

    # Machines.

    @Slot()
    def reload(self) -> None:
        """Shows the machines of the file, unless the user is editing an incomplete list."""
        if self._problem and self._cluster.size > 1:
            return
        try:
            self._set_cluster(kept_cluster() or Cluster((Host(LOOPBACK),)), save=False)
        except DraftlightError as error:
            self._problem = str(error)
        self.refresh()

    def _set_cluster(self, cluster: Cluster, save: bool = True) -> None:
        """Uses these machines, and saves them if they are valid."""
        self._cluster, self._findings, self._message = cluster, (), ""
        self._problem = _problem(cluster)
        if save:
            try:
                if not self._problem:
                    write_hosts(hosts_path(), cluster)
                elif cluster.size < 2:
                    hosts_path().unlink(missing_ok=True)
            except (NotWritten, OSError) as error:
                self._problem = f"The machines could not be saved: {error}"
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Updates everything."""
        cluster = self._cluster
        self.list.show_entries([self._entry(rank, host) for rank, host in enumerate(cluster.hosts)])
        for box, value in ((self.location, self.in_use), (self.sharding, cluster.sharding)):
            box.blockSignals(True)
            box.setCurrentIndex(box.findData(value))
            box.blockSignals(False)
        for field, text in ((self.local_address, ", ".join(cluster.hosts[0].ips)), (self.python, cluster.python)):
            if not field.hasFocus():  # the user may be typing
                field.setText(text)
        if self._message:
            status = self._message
        elif self._testing:
            status = "Testing…"
        elif self._problem:
            status = self._problem
        elif self.in_use:
            status = IN_USE
        else:
            status = "Test tells whether these machines can share the target in use."
        if self._findings:
            status = " ".join(finding.words for finding in self._findings if finding.state != "good") or READY
        self.state.setText(status)
        self._update_enabled()

    def _entry(self, rank: int, host: Host) -> Entry:
        title = "This machine" if rank == 0 else host.ssh
        facts = ", ".join(host.ips) or "no address"
        found = [finding for finding in self._findings if finding.rank == rank]
        problem = next((finding.words for finding in found if finding.state == "bad"), "")
        details = " · ".join((facts, *(finding.words for finding in found)))
        is_ready = bool(found) and all(finding.state == "good" for finding in found)
        return Entry(str(rank), title, details, mark="Ready" if is_ready else "", problem=problem)

    def _update_enabled(self) -> None:
        is_editable = not self.in_use and not self._testing
        for control in (self.sharding, self.local_address, self.python, self.open, self.name, self.address):
            control.setEnabled(is_editable)
        self.add.setEnabled(is_editable and bool(self.name.text().strip() and self.address.text().strip()))
        self.test.setEnabled(is_editable and not self._problem)  # while in use, their memory and ports are taken
        self.remove.setEnabled(is_editable and self.list.key not in ("", "0"))
        self.location.setEnabled(self.in_use or not self._problem)

    # Actions.

    @Slot()
    def _add(self) -> None:
        name, address = self.name.text().strip(), self.address.text().strip()
        if not self.add.isEnabled():
            return
        host = Host(name, _addresses(address))
        if problem := _problem(Cluster((PLACEHOLDER_HOST, host))):
            self._show_message(f"This machine cannot be added. {problem}")
            return
        self.name.clear()
        self.address.clear()
        self._set_cluster(replace(self._cluster, hosts=(*self._cluster.hosts, host)))
        self.name.setFocus()

    @Slot(str)
    def _remove(self, key: str) -> None:
        rank = int(key or self.list.key or 0)
        if rank and not self.in_use:
            hosts = self._cluster.hosts
            self._set_cluster(replace(self._cluster, hosts=hosts[:rank] + hosts[rank + 1 :]))

    @Slot()
    def _open(self) -> None:
        chosen, _ = QFileDialog.getOpenFileName(self, "Open a file of hosts", "", HOST_FILES)
        if chosen:
            try:
                self._set_cluster(read_hosts(Path(chosen)))
            except DraftlightError as error:
                self._show_message(str(error))

    def _show_message(self, message: str) -> None:
        self._message = message
        self.refresh()

    @Slot()
    def _set_split(self) -> None:
        self._message = ""
        self.split_requested.emit(self.location.currentData())
        self.refresh()

    @Slot()
    def _set_sharding(self) -> None:
        self._set_cluster(replace(self._cluster, sharding=self.sharding.currentData()))

    @Slot()
    def _set_local_address(self) -> None:
        ips = _addresses(self.local_address.text())
        if ips != self._cluster.hosts[0].ips:
            self._set_cluster(replace(self._cluster, hosts=(replace(self._cluster.hosts[0], ips=ips), *self._cluster.hosts[1:])))

    @Slot()
    def _set_python(self) -> None:
        python = self.python.text().strip() or "python3"
        if python != self._cluster.python:
            self._set_cluster(replace(self._cluster, python=python))

    @Slot()
    def _test(self) -> None:
        self._testing += 1
        self._message = ""
        self._findings = ()
        request, cluster, target = self._testing, self._cluster, self._settings().target
        self._background.run(
            lambda: check(cluster, target),
            partial(self._show_findings, request),
            partial(self._show_failure, request),
            "testing the machines",
        )
        self.refresh()

    def _show_findings(self, request: int, findings: list[Finding]) -> None:
        if request == self._testing:
            self._testing = 0
            self._findings = tuple(findings)
            self.refresh()

    def _show_failure(self, request: int, error: DraftlightError) -> None:
        if request == self._testing:
            self._testing = 0
            self._show_message(str(error))

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the list."""
        self.list.delegate.set_look(theme, scale)
        self.list.viewport().update()


def _problem(cluster: Cluster) -> str:
    """Returns what prevents these machines from sharing a target, as a sentence; empty if nothing does."""
    if cluster.size < 2:
        return "Add at least one other machine."
    if not cluster.hosts[0].ips:
        return "Write the address at which the others reach this machine."
    try:
        cluster_of(plain(cluster))
    except ValueError as error:
        return f"{capitalised(str(error))}."
    return ""


def _addresses(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _choice(label: str, entries: tuple[tuple[str, object], ...]) -> QComboBox:
    box = named(choice_box(entries, min_characters=10), "purposeSelector", label)
    require_focus_for_wheel(box)
    return box


def _field(label: str, example: str) -> QLineEdit:
    return named(QLineEdit(placeholderText=example), "hostField", label)
