"""Schema migrations, one file a step: a step that was released is never edited."""
