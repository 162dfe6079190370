"""The completion assistant: command line, service, engine, models, prompt and answer."""
