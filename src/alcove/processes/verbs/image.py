"""`alcove image …`: the images of this machine's nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alcove.cli.errors import CliError, ExitCode, exit_on_error
from alcove.cli.options import FormatOption, OutputFormat

app = typer.Typer(help="Images on this machine's nodes.", no_args_is_help=True)

ClusterOption = Annotated[str, typer.Option("--name", help="Which cluster of this machine; see `alcove up`.")]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="Directory of the cluster's, or of a joined node's, state.")
]


def image_folders(name: str, data: Path | None) -> dict[str, Path]:
    """Where each node of the cluster keeps its images. Raises Failure: there is no node here."""
    from alcove.cli.data_directories import cluster_data

    place = data or cluster_data(name)
    nodes = sorted(each for each in (place / "nodes").glob("*") if each.is_dir())
    if nodes:
        return {each.name: each / "images" for each in nodes}
    if (place / "node.kubeconfig").exists():
        return {"this machine": place / "images"}
    raise CliError(f"no node keeps its state in {place}; `alcove up` makes one", ExitCode.UNREACHABLE)


@app.command()
def load(
    archive: Annotated[
        Path, typer.Argument(help="A tar of images, as `docker save` or an OCI tool makes it.", exists=True)
    ],
    node: Annotated[str, typer.Option(help="One node; default: every node of the cluster here.")] = "",
    name: ClusterOption = "",
    data: DataOption = None,
) -> None:
    """Put the images of ARCHIVE on this machine's nodes, for every tenant's pods."""
    import asyncio

    from alcove.agent.images import commands
    from alcove.agent.images.model import ImageFailure

    with exit_on_error():
        folders = image_folders(name, data)
        if node and node not in folders:
            raise CliError(f"there is no node {node} here, but {', '.join(folders)}", ExitCode.NOT_FOUND)
        for owner, folder in folders.items():
            if node and owner != node:
                continue
            try:
                images = asyncio.run(commands.load(folder, archive))
            except ImageFailure as error:
                raise CliError(str(error)) from error
            for image in images:
                typer.echo(f"{', '.join(image.names)} is on {owner}")


@app.command("list")
def list_(form: FormatOption = OutputFormat.TABLE, name: ClusterOption = "", data: DataOption = None) -> None:
    """List the images on this machine's nodes."""
    from alcove.agent.images import commands
    from alcove.cli.output import show_rows

    with exit_on_error():
        rows = [
            (label, owner, image.digest, f"{image.size_bytes / 1e6:.1f} MB")
            for owner, folder in image_folders(name, data).items()
            for image in commands.list_images(folder)
            for label in image.names or ("<none>",)
        ]
        if form is OutputFormat.TABLE:
            rows = [(label, owner, digest[:19], size) for label, owner, digest, size in rows]
        show_rows(("IMAGE", "NODE", "DIGEST", "SIZE"), rows, form)


@app.command()
def remove(
    image: Annotated[str, typer.Argument(help="Its name, as `alcove image list` shows it.")],
    name: ClusterOption = "",
    data: DataOption = None,
) -> None:
    """Let go of an image that was loaded: its files go when no pod uses it any more."""
    from alcove.agent.images import commands
    from alcove.agent.images.model import ImageFailure

    with exit_on_error():
        for owner, folder in image_folders(name, data).items():
            try:
                commands.remove(folder, image)
            except ImageFailure as error:
                raise CliError(f"{owner}: {error}", ExitCode.NOT_FOUND) from error
            typer.echo(f"{image} is no longer on {owner}")
