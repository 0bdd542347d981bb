"""The name of Mooncake, for programs that import `mooncake.engine`: only its transfer engine is here."""
