"""The real corpus: reading, splitting without leaks, downloading.

What needs the real file finds it through ATTNBOOK_TATOEBA or beside the repository, and is skipped where it
is absent; a small file of our own in the same format is always there.
"""

import hashlib
import io
import os
import re
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from attnbook.text import tatoeba, tokenize_chinese, tokenize_english
from attnbook.text.tatoeba import DownloadError, Tatoeba, TextPair, download, load, read

FIXTURE = Path(__file__).with_name("fixture.txt")
REAL = Path(
    os.environ.get("ATTNBOOK_TATOEBA")
    or Path(__file__).parents[2] / ".." / "shared" / "data" / "tatoeba-cmn-eng" / "cmn.txt"
)


def words(tokens):
    return tuple(token for token in tokens if token[0].isalnum()) or tuple(tokens)


def source_key(pair):
    return words(tokenize_chinese(pair.source))


def target_key(pair):
    return words(tokenize_english(pair.target))


# ---------------------------------------------------------------------- reading


def test_two_and_three_columns_are_read_and_normalized():
    pairs, problems = read(FIXTURE.read_bytes())
    assert len(pairs) == 40
    assert problems == []
    assert pairs[0] == TextPair("嗨。", "Hi.")
    assert TextPair("我是一只鼬。", "I'm a weasel.") in pairs
    assert TextPair("要3.5元。", "It costs 3.5 yuan.") in pairs
    assert TextPair("他说：“嗨。”", 'He said, "Hi."') in pairs


def test_broken_lines_are_reported_with_their_numbers_and_the_rest_is_used():
    data = (
        "﻿Hi.\t嗨。\r\nno tab\n\n\t空\nBye.\t \nfour\t四\tc\td\n".encode()
        + b"bad\t\xff\xfe\n"
        + "Run.\t跑。".encode()
    )
    pairs, problems = read(data)
    assert pairs == [TextPair("嗨。", "Hi."), TextPair("跑。", "Run.")]
    assert problems == [
        "line 2: expected 2 or 3 columns, found 1",
        "line 4: expected a sentence in both columns, found an empty one",
        "line 5: expected a sentence in both columns, found an empty one",
        "line 6: expected 2 or 3 columns, found 4",
        "line 7: expected UTF-8, found byte 0xff",
    ]


def test_problems_and_the_digest_are_kept(tmp_path):
    path = tmp_path / "cmn.txt"
    path.write_bytes(b"broken\n" + FIXTURE.read_bytes())
    corpus = load(path, num_test=5, num_valid=5)
    assert corpus.problems == ["line 1: expected 2 or 3 columns, found 1"]
    assert corpus.digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_without_pairs_is_refused(tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("nothing here\n")
    with pytest.raises(ValueError, match="found none; first problem"):
        load(path)


def test_the_path_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("ATTNBOOK_TATOEBA", str(FIXTURE))
    assert len(load(num_test=5, num_valid=5).test) >= 5


@pytest.mark.parametrize("path", [None, "no/such/file"])
def test_without_a_file_the_error_says_how_to_get_it(path, monkeypatch):
    monkeypatch.delenv("ATTNBOOK_TATOEBA", raising=False)
    with pytest.raises(FileNotFoundError, match="open https://www.manythings.org/anki/ in a browser"):
        load(path)


# ---------------------------------------------------------------------- splits


@pytest.mark.parametrize("seed", range(6))
def test_splits_of_the_fixture_share_no_sentence(seed):
    check_splits(load(FIXTURE, seed=seed, num_test=6, num_valid=4), num_test=6, num_valid=4)


def check_splits(corpus, num_test, num_valid):
    assert len({target_key(pair) for pair in corpus.test}) == num_test
    assert len({target_key(pair) for pair in corpus.valid}) == num_valid
    for first, second in (("train", "valid"), ("train", "test"), ("valid", "test")):
        for key in (source_key, target_key):
            shared = set(map(key, getattr(corpus, first))) & set(map(key, getattr(corpus, second)))
            assert not shared
    for held_out, others in (("test", corpus.train + corpus.valid), ("valid", corpus.train)):
        shown = {
            words(tokenize_english(text)) for s in corpus.sources(held_out) for text in corpus.references(s)
        }
        assert not shown & set(map(target_key, others))


def test_all_sources_of_a_test_sentence_are_in_the_test():
    pairs = read(FIXTURE.read_bytes())[0]
    for seed in range(8):
        corpus = Tatoeba(pairs, seed=seed, num_test=8, num_valid=4)
        targets = set(map(target_key, corpus.test))
        assert {pair for pair in pairs if target_key(pair) in targets} == set(corpus.test)


def test_references_are_all_translations_of_a_source():
    corpus = load(FIXTURE, num_test=5, num_valid=5)
    assert corpus.references("我不知道。") == ["I don't know.", "I have no idea."]
    assert corpus.references("鼬在哪儿？") == ["Where is the weasel?", "Where's the weasel?"]
    with pytest.raises(KeyError):
        corpus.references("没有这句话。")


def test_sources_are_listed_once():
    corpus = load(FIXTURE, num_test=20, num_valid=5)
    for split in ("train", "valid", "test"):
        sources = corpus.sources(split)
        assert len(sources) == len(set(sources)) > 0
    with pytest.raises(ValueError, match="split: expected one of 'train', 'valid', 'test', found 'dev'"):
        corpus.sources("dev")


def test_a_seed_gives_the_same_splits_whatever_the_order_of_lines():
    pairs = read(FIXTURE.read_bytes())[0]
    first, second = Tatoeba(pairs, 1, 6, 4), Tatoeba(pairs[::-1], 1, 6, 4)
    assert set(first.test) == set(second.test)
    assert set(first.train) == set(second.train)
    assert set(first.test) != set(Tatoeba(pairs, 2, 6, 4).test)


def test_more_test_sentences_than_there_are_is_an_error():
    with pytest.raises(ValueError, match="num_test, num_valid: expected fewer than the corpus has"):
        load(FIXTURE, num_test=1000)


@pytest.mark.skipif(not REAL.is_file(), reason="the Tatoeba file is not here (set ATTNBOOK_TATOEBA)")
def test_the_real_corpus():
    corpus = load(REAL)
    assert len(corpus.train) > 25_000
    assert len(corpus.sources("test")) > 1000
    assert len(corpus.problems) < 10
    check_splits(corpus, num_test=1000, num_valid=1000)
    characters = {character for pair in corpus.train for character in pair.source}
    assert not characters & set("這個們說來時會學為國東車馬鳥愛")


# ---------------------------------------------------------------------- downloading


@pytest.fixture
def archive():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("cmn.txt", FIXTURE.read_bytes())
        file.writestr("_about.txt", "about" * 1000)
    return buffer.getvalue()


@pytest.fixture
def server(archive):
    """A web server on this machine; it may cut answers short or ignore ranges."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            state.ranges.append(self.headers["Range"])
            start = (
                int(re.findall(r"\d+", self.headers["Range"])[0])
                if self.headers["Range"] and state.resumes
                else 0
            )
            if start >= len(state.content):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(state.content) - start))
            self.end_headers()
            self.wfile.write(state.content[start : state.cut])

        def log_message(self, *_):
            pass

    class State:
        content, cut, resumes, ranges = archive, None, True, []

    state = State()
    state.ranges = []
    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_port}/cmn-eng.zip"
    yield state
    http.shutdown()
    thread.join()
    http.server_close()


def fetch(server, folder, **options):
    return download(folder, url=server.url, progress=False, timeout=5, **options)


def test_download(server, archive, tmp_path):
    path = fetch(server, tmp_path / "data", sha256=hashlib.sha256(archive).hexdigest())
    assert path.read_bytes() == FIXTURE.read_bytes()
    assert os.listdir(path.parent) == ["cmn.txt"]
    assert fetch(server, tmp_path / "data") == path
    assert server.ranges == [None]  # the second call found the file


@pytest.mark.parametrize("resumes", [True, False])
def test_an_interrupted_download_goes_on(server, tmp_path, resumes):
    server.cut = 500
    with pytest.raises(DownloadError, match="call again to go on"):
        fetch(server, tmp_path)
    assert os.listdir(tmp_path) == ["cmn-eng.zip.part"]
    server.cut, server.resumes = None, resumes
    assert fetch(server, tmp_path).read_bytes() == FIXTURE.read_bytes()
    assert server.ranges == [None, "bytes=500-"]


def test_a_part_that_is_whole_already_is_used(server, archive, tmp_path):
    (tmp_path / "cmn-eng.zip.part").write_bytes(archive)
    assert fetch(server, tmp_path).read_bytes() == FIXTURE.read_bytes()


def test_a_wrong_checksum_is_an_error_and_leaves_nothing(server, tmp_path):
    with pytest.raises(DownloadError, match="expected SHA-256 abc, found"):
        fetch(server, tmp_path, sha256="abc")
    assert os.listdir(tmp_path) == []


def test_something_else_than_the_archive_is_an_error(server, tmp_path):
    server.content = b"<html>Please sign in</html>"
    with pytest.raises(DownloadError, match="not the archive that was expected.*in a browser"):
        fetch(server, tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_damaged_archive_is_an_error(server, archive, tmp_path):
    place = archive.index(FIXTURE.read_bytes()[:20]) + 40
    server.content = archive[:place] + b"XXXX" + archive[place + 4 :]
    with pytest.raises(DownloadError, match="not the archive that was expected"):
        fetch(server, tmp_path)


def test_without_network_the_error_says_how_to_get_the_file(tmp_path):
    with pytest.raises(DownloadError, match="could not be downloaded.*ATTNBOOK_TATOEBA"):
        download(tmp_path, url="http://127.0.0.1:9/cmn-eng.zip", progress=False, timeout=2)
    assert not (tmp_path / "cmn.txt").exists()


def test_progress_is_shown(server, tmp_path, capsys):
    download(tmp_path, url=server.url, timeout=5)
    assert "cmn-eng.zip" in capsys.readouterr().err


def test_the_address_is_the_one_of_manythings():
    assert tatoeba.URL == "https://www.manythings.org/anki/cmn-eng.zip"
