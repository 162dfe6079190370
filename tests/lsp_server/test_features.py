"""Settings, ways of suggesting, commands, status and statistics, each in a conversation."""

from __future__ import annotations

import pytest

from assistant.service.history import History
from lsp.commands import COMMANDS
from tests.lsp_server.client import apply

URI = "file:///tmp/none/a.py"
INLINE, LIST = "textDocument/inlineCompletion", "textDocument/completion"
PLAIN = {"textDocument": {"inlineCompletion": {}}}


def listed(editor, uri, line, character):
    params = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}
    return editor.call(LIST, params).result


# Ways of suggesting.


def test_capabilities_of_a_client_with_inline_completion(desk):
    found = desk.editor(start=False).start(PLAIN)
    assert found["inlineCompletionProvider"] == {} and "completionProvider" not in found
    assert found["executeCommandProvider"]["commands"] == list(COMMANDS)
    assert found["textDocumentSync"]["change"] == 2 and found["textDocumentSync"]["openClose"]


def test_a_client_without_inline_completion_gets_an_entry_of_the_list(desk):
    desk.say("lue = 1\nother = 2")
    editor = desk.editor(start=False)
    assert "completionProvider" in editor.start({})
    editor.ready()
    editor.open(URI, "x.va")
    [entry] = listed(editor, URI, 0, 4)["items"]
    assert apply("x.va", entry["textEdit"]["range"], entry["textEdit"]["newText"]) == "x.value = 1\nother = 2"
    assert (entry["filterText"], entry["label"]) == ("va", "value = 1 …")
    assert entry["sortText"] > "zzzz"


def test_an_empty_object_that_a_client_sends_as_null_announces_inline_completion(desk):
    found = desk.editor(start=False).start({"textDocument": {"inlineCompletion": None}})
    assert "inlineCompletionProvider" in found and "completionProvider" not in found


@pytest.mark.parametrize("empty", [{}, [], {"tokenleap": []}, None])
def test_empty_settings_of_any_client_are_no_fault(desk, empty):
    editor = desk.editor(start=False, answers={"workspace/configuration": lambda params: [empty]})
    editor.start(initializationOptions=empty)
    editor.ready()
    editor.open(URI, "x = ")
    assert editor.suggestion(URI, 0, 4).items
    assert editor.messages() == []


@pytest.mark.parametrize("choice", ["inline", "completion"])
def test_the_setting_forces_a_way(desk, choice):
    editor = desk.editor(start=False)
    found = editor.start({} if choice == "inline" else PLAIN, initializationOptions={"fallback": choice})
    assert ("inlineCompletionProvider" in found, "completionProvider" in found) == (
        choice == "inline",
        choice == "completion",
    )
    editor.ready()
    editor.open(URI, "x = ")
    result = listed(editor, URI, 0, 4)
    assert (result is None) == (choice == "inline")


def test_dynamic_registration_follows_the_setting(desk):
    said = {"fallback": "auto"}
    editor = desk.editor(start=False, answers={"workspace/configuration": lambda params: [dict(said)]})
    dynamic = {"dynamicRegistration": True}
    found = editor.start(
        {
            "textDocument": {"inlineCompletion": dynamic, "completion": dynamic},
            "workspace": {"configuration": True, "didChangeConfiguration": dynamic},
        }
    )
    assert "inlineCompletionProvider" not in found and "completionProvider" not in found

    def registered():
        return [one["method"] for params in editor.sent("client/registerCapability") for one in params["registrations"]]

    editor.until(lambda: registered() == ["workspace/didChangeConfiguration", INLINE])
    said["fallback"] = "completion"
    editor.notify("workspace/didChangeConfiguration", {"settings": None})
    editor.until(lambda: registered()[2:] == [LIST])
    [gone] = editor.sent("client/unregisterCapability")
    assert gone["unregisterations"][0]["method"] == INLINE


def test_mini_nvim_1946_an_entry_is_right_when_only_inserted_at_the_cursor(desk):
    desk.say("format(total))")
    editor = desk.editor(start=False)
    editor.start({})
    editor.ready()
    editor.open(URI, "total = 3\nprint()\n")
    [entry] = listed(editor, URI, 1, 6)["items"]
    assert entry["textEdit"]["newText"] == "format(total)"
    assert entry["textEdit"]["range"]["end"] == {"line": 1, "character": 6}
    # An inline item may replace the bracket that the editor closed.
    item = editor.suggestion(URI, 1, 6).items[0]
    done = apply("total = 3\nprint()\n", item["range"], item["insertText"])
    assert done == "total = 3\nprint(format(total))\n"


def test_an_entry_chosen_in_the_list_is_gone_on_with(desk):
    desk.say("(value)")
    editor = desk.editor()
    editor.open(URI, "x = le\ny = 2\n")
    chosen = {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 6}}
    reply = editor.suggestion(URI, 0, 6, selectedCompletionInfo={"range": chosen, "text": "len"})
    assert (reply.items[0]["insertText"], reply.items[0]["range"]) == ("len(value)", chosen)
    assert (desk.runs()[0]["prefix"], desk.runs()[0]["suffix"]) == ("x = len", "\ny = 2\n")
    elsewhere = {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 1}}
    reply = editor.suggestion(URI, 0, 6, selectedCompletionInfo={"range": elsewhere, "text": "len"})
    assert reply.items == []


def test_by_hand_there_are_several_and_automatically_one(desk):
    editor = desk.editor()
    editor.open(URI, "x = ")
    assert [item["insertText"] for item in editor.suggestion(URI, 0, 4, trigger=1).items] == ["x = done", "x = done1"]
    assert len(editor.suggestion(URI, 0, 4, trigger=2).items) == 1


# Settings.


def test_settings_from_all_three_ways_the_later_wins(desk):
    said = [{"max_tokens": 33}]
    editor = desk.editor(start=False, answers={"workspace/configuration": lambda params: said})
    editor.start(
        PLAIN | {"workspace": {"configuration": True}},
        initializationOptions={"max_tokens": 22, "seed": 5, "top_k": None, "min_p": ""},
    )
    editor.ready()
    editor.open(URI, "x = ")
    editor.suggestion(URI, 0, 4)
    assert [(run["max_tokens"], run["seed"]) for run in desk.runs()] == [(33, 5)]
    said[0] = {"seed": 6}
    editor.notify("workspace/didChangeConfiguration", {"settings": {}})
    desk.until(lambda: editor.suggestion(URI, 0, 4).items and desk.runs()[-1]["seed"] == 6)
    assert desk.runs()[-1]["max_tokens"] == 22
    assert editor.messages() == []


def test_bad_settings_are_named_once_and_the_rest_applies(desk):
    editor = desk.editor(start=False)
    options = {"tokenleap": {"max_tokens": "many", "no_such": 1, "seed": 9, "trace": {"server": "off"}}}
    editor.start(PLAIN, initializationOptions=options)
    editor.ready()
    editor.open(URI, "x = ")
    editor.suggestion(URI, 0, 4)
    editor.notify("workspace/didChangeConfiguration", {"settings": options})
    editor.suggestion(URI, 0, 4)
    [message] = editor.messages()
    assert "max_tokens" in message and "no_such" in message and "trace" not in message
    assert {run["seed"] for run in desk.runs()} == {9} and {run["max_tokens"] for run in desk.runs()} == {128}


def test_a_users_file_counts_from_the_next_request_on(desk, own_home):
    editor = desk.editor()
    editor.open(URI, "x = ")
    own_home.settings("seed = 3\n")
    editor.suggestion(URI, 0, 4)
    own_home.settings("seed = 44\n")
    editor.suggestion(URI, 0, 4)
    assert [run["seed"] for run in desk.runs()] == [3, 44]


@pytest.mark.parametrize(
    "options", [{"enabled": False}, {"languages_off": "Python, go"}, {"languages_off": ["markdown", "python"]}]
)
def test_off_is_off(desk, options):
    editor = desk.editor(start=False)
    editor.start(PLAIN, initializationOptions=options)
    editor.open(URI, "x = ")
    assert editor.suggestion(URI, 0, 4).result == {"items": []}
    assert editor.command("tokenleap.why", {"uri": URI})["reason"] == "off"
    assert desk.runs() == []


# Commands.


def test_switching_off_and_on_for_workspace_language_and_file(desk):
    other = "file:///tmp/none/b.go"
    editor = desk.editor()
    editor.open(URI, "x = ")
    editor.open(other, "x = ", "go")

    def works(uri):
        return bool(editor.suggestion(uri, 0, 4).items)

    assert editor.command("tokenleap.disable", {"scope": "file", "uri": URI})["enabled"] is False
    assert (works(URI), works(other)) == (False, True)
    editor.command("tokenleap.disable", {"scope": "language", "uri": other})
    assert (works(URI), works(other)) == (False, False)
    editor.command("tokenleap.enable", {"scope": "language", "language": "go"})
    editor.command("tokenleap.disable")
    assert (works(URI), works(other)) == (False, True)
    editor.command("tokenleap.enable", {"scope": "file", "uri": URI})
    assert works(URI)
    assert editor.command("tokenleap.enable", {"scope": "planet"}) is None


def test_accepting_word_by_word_and_line_by_line(desk):
    text = {"is": "x = \r\n"}

    def put_in(params):
        [[uri, [edit]]] = params["edit"]["changes"].items()
        text["is"] = apply(text["is"], edit["range"], edit["newText"])
        editor.change(uri, {"range": edit["range"], "text": edit["newText"]})
        return {"applied": True}

    desk.say("foo bar\n    baz()\nlast")
    editor = desk.editor(answers={"workspace/applyEdit": put_in})
    editor.open(URI, text["is"])
    [number] = editor.suggestion(URI, 0, 4).items[0]["command"]["arguments"]
    assert editor.command("tokenleap.acceptWord", number) == {"text": "foo", "rest": " bar\n    baz()\nlast"}
    assert editor.command("tokenleap.acceptLine", number)["text"] == " bar"
    assert editor.command("tokenleap.acceptLine", number)["text"] == "\n    baz()"
    assert text["is"] == "x = foo bar\r\n    baz()\r\n"
    assert editor.command("tokenleap.acceptWord", number) == {"text": "\nlast", "rest": ""}
    assert text["is"] == "x = foo bar\r\n    baz()\r\nlast\r\n"
    assert editor.command("tokenleap.acceptWord", number) is None
    [other] = editor.suggestion(URI, 0, 4).items[0]["command"]["arguments"]
    editor.type(URI, 0, 0, "moved ")
    assert editor.command("tokenleap.acceptWord", other) is None


def test_cycling_goes_round(desk):
    editor = desk.editor()
    editor.open(URI, "x = ")
    one, two = editor.suggestion(URI, 0, 4).items
    numbers = [item["command"]["arguments"][0] for item in (one, two)]
    assert editor.command("tokenleap.next", numbers[0]) == two
    assert editor.command("tokenleap.next", numbers[1]) == one
    assert editor.command("tokenleap.previous", numbers[0]) == two
    assert editor.command("tokenleap.next", 12345) is None


def test_clearing_the_caches_makes_the_host_forget_and_keeps_it(desk):
    editor = desk.editor()
    editor.open(URI, "x = ")
    pid = desk.host()

    def runs():
        assert editor.suggestion(URI, 0, 4, trigger=2).items
        return len(desk.runs(prefix="x = "))

    assert (runs(), runs()) == (1, 1)
    assert editor.command("tokenleap.clearCaches") == {"cleared": True}
    assert "the caches are cleared" in editor.messages()[-1]
    assert (runs(), desk.host()) == (2, pid)
    assert editor.status["kind"] == "Normal"


def test_what_is_switched_can_be_saved(desk, tmp_path, own_home):
    own_home.settings('# mine\nlanguages_off = "markdown"\n')
    uri = f"file://{tmp_path}/a.py"
    editor = desk.editor(start=False)
    editor.start(PLAIN, rootUri=f"file://{tmp_path}")
    editor.ready()
    editor.open(uri, "x = ")
    workspace, python = {"scope": "workspace", "save": True}, {"scope": "language", "language": "python", "save": True}
    assert editor.command("tokenleap.disable", workspace)["saved"] == str(tmp_path / ".tokenleap.toml")
    assert editor.command("tokenleap.disable", python)["saved"] == str(own_home.path / "config" / "settings.toml")
    assert editor.command("tokenleap.disable", {"scope": "file", "uri": uri, "save": True})["saved"] is None
    assert (tmp_path / ".tokenleap.toml").read_text() == "enabled = false\n"
    assert (own_home.path / "config" / "settings.toml").read_text() == '# mine\nlanguages_off = "markdown, python"\n'
    later = desk.editor(start=False)
    later.start(PLAIN, rootUri=f"file://{tmp_path}")
    later.open(uri, "x = ")
    assert later.suggestion(uri, 0, 4).items == []
    later.command("tokenleap.enable", {"scope": "language", "language": "python"})
    assert later.command("tokenleap.enable", python)["enabled"] is True
    assert later.command("tokenleap.enable", workspace)["saved"]
    assert later.suggestion(uri, 0, 4).items
    assert (own_home.path / "config" / "settings.toml").read_text() == '# mine\nlanguages_off = "markdown"\n'


def test_what_cannot_be_saved_is_told_and_counts_all_the_same(desk, own_home):
    own_home.settings("no = toml = at all")
    editor = desk.editor()
    editor.open(URI, "x = ")
    told = editor.command("tokenleap.disable", {"scope": "language", "language": "python", "save": True})
    assert told == {"scope": "language", "enabled": False, "saved": None}
    assert "could not be saved" in editor.messages()[-1]
    assert editor.suggestion(URI, 0, 4).items == []


def test_enabling_a_workspace_leaves_its_languages_off(desk):
    editor = desk.editor(start=False)
    editor.start(PLAIN, initializationOptions={"enabled": False, "languages_off": "markdown"})
    other = "file:///tmp/none/a.md"
    editor.open(URI, "x = ")
    editor.open(other, "x = ", "markdown")
    editor.until(lambda: editor.status.get("kind") == "Inactive")
    editor.command("tokenleap.enable")
    assert editor.suggestion(URI, 0, 4).items
    assert editor.status["kind"] == "Normal"
    assert editor.suggestion(other, 0, 4).items == []
    editor.command("tokenleap.disable")
    assert editor.status["kind"] == "Inactive"


def test_why_nothing_was_suggested(desk):
    desk.script(say="", empty="scope")
    editor = desk.editor()
    editor.open(URI, "x = ")
    assert editor.suggestion(URI, 0, 4).items == []
    told = editor.command("tokenleap.why")
    assert told["message"] == "nothing to suggest: the block that the cursor is in is complete"
    assert "complete" in editor.messages()[-1]


# Statistics.


def test_statistics_of_what_was_shown_and_accepted(desk):
    desk.say("one two")
    editor = desk.editor()
    numbers = []
    for line in range(3):
        uri = f"file:///tmp/none/{line}.py"
        editor.open(uri, "x = ")
        [item] = editor.suggestion(uri, 0, 4, trigger=2).items
        numbers += item["command"]["arguments"]
        editor.notify("textDocument/didShowCompletion", {"item": item})
    item = {"command": {"title": "", "command": "", "arguments": [numbers[1]]}}
    editor.notify("textDocument/didPartiallyAcceptCompletion", {"item": item, "acceptedLength": 7})
    editor.command("tokenleap.accept", numbers[0])
    editor.close_document("file:///tmp/none/2.py")
    desk.script(say="", empty="scope")
    editor.open(URI, "y = ")
    editor.suggestion(URI, 0, 4, trigger=2)
    found = editor.command("tokenleap.statistics")
    with_file = History.open()
    assert with_file.summary() == found
    with_file.close()
    assert found["shown"] == 3
    assert found["accepted"] == 1


def test_no_statistics_when_they_are_off(desk, own_home):
    editor = desk.editor(start=False)
    editor.start(PLAIN, initializationOptions={"statistics": False})
    editor.ready()
    editor.open(URI, "x = ")
    editor.suggestion(URI, 0, 4)
    assert editor.leave() == 0
    assert not list((own_home.path / "data").glob("history*"))


def test_the_log_never_holds_code(desk):
    desk.say("secret_answer")
    editor = desk.editor(start=False)
    editor.start(PLAIN, initializationOptions={"log_level": "debug"})
    editor.ready()
    editor.open(URI, "secret_text = ")
    assert editor.suggestion(URI, 0, 14).items
    assert editor.leave() == 0
    said = [params["message"] for params in editor.sent("window/logMessage")]
    said.append((desk.folder / "stderr-0.txt").read_text(encoding="utf-8"))
    assert not [line for line in said if "secret" in line]
