"""`alcove image …`: container images on this machine's nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alcove.cli.errors import CliError, ExitCode, exit_on_error
from alcove.cli.options import FormatOption, OutputFormat

app = typer.Typer(help="Manage images on this machine's nodes.", no_args_is_help=True)

ClusterOption = Annotated[str, typer.Option("--name", help="Name of the local cluster; see `alcove up`.")]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="State directory of the cluster or of a joined node.")
]


def image_directories(name: str, data: Path | None) -> dict[str, Path]:
    """Image directories by node. Raises CliError if there is no node on this machine."""
    from alcove.cli.data_directories import cluster_data

    state_directory = data or cluster_data(name)
    nodes = sorted(each for each in (state_directory / "nodes").glob("*") if each.is_dir())
    if nodes:
        return {each.name: each / "images" for each in nodes}
    if (state_directory / "node.kubeconfig").exists():
        return {"this machine": state_directory / "images"}
    raise CliError(
        f"no node found in {state_directory}; start a cluster with `alcove up`", ExitCode.UNREACHABLE
    )


@app.command()
def load(
    archive: Annotated[
        Path, typer.Argument(help="Image archive (tar) from `docker save` or an OCI tool.", exists=True)
    ],
    node: Annotated[
        str, typer.Option(help="Load only on this node; default: all nodes of the cluster on this machine.")
    ] = "",
    name: ClusterOption = "",
    data: DataOption = None,
) -> None:
    """Load the images of ARCHIVE on this machine's nodes, for all tenants' pods."""
    import asyncio

    from alcove.agent.images import commands
    from alcove.agent.images.model import ImageFailure

    with exit_on_error():
        directories = image_directories(name, data)
        if node and node not in directories:
            raise CliError(
                f'node "{node}" not found on this machine; nodes: {", ".join(directories)}',
                ExitCode.NOT_FOUND,
            )
        for node_name, directory in directories.items():
            if node and node_name != node:
                continue
            try:
                images = asyncio.run(commands.load(directory, archive))
            except ImageFailure as error:
                raise CliError(str(error)) from error
            for image in images:
                typer.echo(f"{', '.join(image.names)} loaded on {node_name}")


@app.command("list")
def list_(form: FormatOption = OutputFormat.TABLE, name: ClusterOption = "", data: DataOption = None) -> None:
    """List the images on this machine's nodes."""
    from alcove.agent.images import commands
    from alcove.cli.output import show_rows

    with exit_on_error():
        rows = [
            (label, node_name, image.digest, f"{image.size_bytes / 1e6:.1f} MB")
            for node_name, directory in image_directories(name, data).items()
            for image in commands.list_images(directory)
            for label in image.names or ("<none>",)
        ]
        if form is OutputFormat.TABLE:
            rows = [(label, node_name, digest[:19], size) for label, node_name, digest, size in rows]
        show_rows(("IMAGE", "NODE", "DIGEST", "SIZE"), rows, form)


@app.command()
def remove(
    image: Annotated[str, typer.Argument(help="Name of the image, as shown by `alcove image list`.")],
    name: ClusterOption = "",
    data: DataOption = None,
) -> None:
    """Remove a loaded image; its files are deleted once no pod uses it."""
    from alcove.agent.images import commands
    from alcove.agent.images.model import ImageFailure

    with exit_on_error():
        for node_name, directory in image_directories(name, data).items():
            try:
                commands.remove(directory, image)
            except ImageFailure as error:
                raise CliError(f"{node_name}: {error}", ExitCode.NOT_FOUND) from error
            typer.echo(f"{image} removed from {node_name}")
