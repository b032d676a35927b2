"""The one table of renames from ProgramDesc operators to phi: ``table.TABLE``."""
