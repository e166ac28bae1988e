"""The cells of the fault grid, one module per area. Every module here is loaded by table.load()."""
