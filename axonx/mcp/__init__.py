"""Jobs as tools of the Model Context Protocol: https://modelcontextprotocol.io"""
