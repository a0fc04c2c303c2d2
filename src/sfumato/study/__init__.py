"""Many sites or many respondents, and a coordinator whom nobody needs to trust: protocol, client, server."""
