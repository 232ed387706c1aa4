"""Serves a GGUF file over HTTP on a free port of this machine, as an OpenAI-compatible server.

    python benchmarks/serve.py FILE.gguf    # prints the base URL

It ends with Ctrl-C, or when its input does.
"""

import contextlib
import sys

import xllamacpp  # type: ignore[import-untyped]  # it has no types


def main() -> None:
    """Load the model, say where it is, and wait."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = sys.argv[1]
    parameters.n_ctx = 16_384
    parameters.n_parallel = 1
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    print(f"{server.listening_address}/v1", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.read()


if __name__ == "__main__":
    main()
