"""The coordinator: one HTTP service for studies. It needs the extra `sfumato[server]`."""
