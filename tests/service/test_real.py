"""The host with the real engine and model: what it answers, and what a kill in the middle leaves."""

from __future__ import annotations

import os
import signal

import pytest

from assistant.errors import HostError
from assistant.service.client import Client
from assistant.service.local import LocalService
from assistant.service.protocol import CompletionRequest, RequestCancelled

REQUEST = CompletionRequest(
    prefix='"""Small tools for text."""\n\n\ndef word_counts(text):\n'
    '    """How often each word stands in the text, most frequent first."""\n    counts = {}\n    ',
    suffix="\n    return sorted(counts.items(), key=lambda item: -item[1])\n\n\nprint(word_counts('a'))\n",
    path="words.py",
    language="python",
    max_tokens=24,
    stream=True,
)


def test_host_and_process_give_the_same_and_a_kill_or_cancel_changes_nothing(real_model, own_home):
    own_home.link_models()
    with LocalService() as service:
        expected = service.complete(REQUEST)
    assert "counts" in expected.completion and expected.load_ms > 0
    with Client.connect(wait=60) as client:
        texts = []
        first = client.complete(REQUEST, texts.append)
        assert "".join(texts) == first.completion == expected.completion
        pending = client.submit(REQUEST)

        def cancel(text):
            pending.cancel()

        with pytest.raises(RequestCancelled):
            pending.result(cancel)
        again = client.complete(REQUEST)
        assert (again.completion, again.load_ms, again.startup_ms) == (first.completion, 0.0, 0.0)
        assert again.reused_tokens == again.prompt_tokens - 1

        pending = client.submit(REQUEST)

        def kill(text):
            os.kill(client.host_pid, signal.SIGKILL)

        with pytest.raises(HostError, match="went away"):
            pending.result(kill)
        restarted = client.complete(REQUEST)
        assert restarted.completion == first.completion
        assert restarted.startup_ms > 0 and restarted.load_ms > 0
        client.stop()
