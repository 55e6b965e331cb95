"""Downloading a missing data set, from a server on this machine: whole or not at all, and safe."""

import io
import stat
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dglke_frugal.data import download, load_graph
from dglke_frugal.errors import InputError

GOOD = {"wn18/entities.dict": "0\ta\n1\tb\n", "wn18/relations.dict": "0\tr\n", "wn18/train.txt": "a\tr\tb\n",
        "wn18/valid.txt": "b\tr\ta\n", "wn18/test.txt": "a\tr\ta\n"}


def archive(files, **extra):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in {**files, **extra}.items():
            file.writestr(name, content)
    return packed.getvalue()


def link(name):
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


@pytest.fixture
def serve(monkeypatch):
    """serve(body, status, length) answers every request so; returns the paths that were asked for."""
    servers = []

    def start(body, status=200, length=None):
        asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_response(status)
                if length != -1:
                    self.send_header("Content-Length", str(len(body) if length is None else length))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        monkeypatch.setattr(download, "URL", f"http://127.0.0.1:{server.server_port}/{{name}}.zip")
        return asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("length", [None, -1], ids=["sized", "unsized"])
def test_download_and_load(tmp_path, serve, length):
    asked = serve(archive(GOOD, **{"__MACOSX/junk": "x", "wn18/": ""}), length=length)
    graph = load_graph("wn18", tmp_path / "data")
    assert (graph.n_entities, len(graph.train)) == (2, 1) and graph.valid.head[0] == 1
    assert asked == ["/wn18.zip"]
    load_graph("wn18", tmp_path / "data")
    assert len(asked) == 1, "what is there is not fetched again"
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["wn18"]


BOMB = b"0" * (8 << 20)


@pytest.mark.parametrize(
    "body, options, says",
    [
        (archive(GOOD), dict(status=404),
         "answers 404 .*; download http.*wn18.zip elsewhere and unpack it so that .*wn18 holds"),
        (archive(GOOD), dict(length=9999), "broke off after [0-9,]+ of 9,999 bytes; try again"),
        (b"<html>", {}, "is not a sound zip archive"),
        (archive(GOOD)[:-30], {}, "is not a sound zip archive"),
        (archive({"other/train.txt": "x"}), {}, "does not contain a folder wn18"),
        (archive({}), {}, "does not contain a folder wn18"),
        (archive(GOOD, **{"../escaped": "x"}), {}, "holds '../escaped', which is no plain file"),
        (archive(GOOD, **{"wn18/../../escaped": "x"}), {}, "no plain file inside"),
        (archive(GOOD, **{"/escaped": "x"}), {}, "no plain file inside"),
        (archive(GOOD, **{"wn18\\..\\..\\escaped": "x"}), {}, "no plain file inside"),
        (archive(GOOD, **{"C:escaped": "x"}), {}, "no plain file inside"),
        (archive({**GOOD, link("wn18/link"): "/etc/passwd"}), {}, "holds 'wn18/link', which is no plain file"),
        (archive(GOOD, **{"wn18/bomb": BOMB}), {}, "would unpack to 8,388,[0-9]+ bytes, too many"),
        (archive(GOOD, **{"wn18/bomb": BOMB}).replace((8 << 20).to_bytes(4, "little"), (9).to_bytes(4, "little")), {},
         "is not a sound zip archive")],
    ids=lambda value: value if isinstance(value, str) else "")
def test_refused_whole(tmp_path, serve, body, options, says):
    serve(body, **options)
    with pytest.raises(InputError, match=says) as caught:
        load_graph("wn18", tmp_path / "data")
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "data").iterdir()) == [] and [path.name for path in tmp_path.iterdir()] == ["data"]


def test_offline(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "URL", "http://127.0.0.1:9/{name}.zip")
    with pytest.raises(InputError,
                       match="cannot be downloaded .*; download .* elsewhere and unpack it so that") as caught:
        load_graph("FB15k", tmp_path)
    assert str(tmp_path / "FB15k") in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to .*; choose a writable folder with --data_path"):
        load_graph("FB15k", tmp_path / "file")


def test_default_place():
    assert download.URL.format(name="FB15k") == "https://data.dgl.ai/dataset/FB15k.zip"
