"""One screen a file; `tui.app` names them and imports each when it is first shown."""
