"""What agents saw, thought, did and got back, as HTML that is safe to show and bounded in size.

Everything here is pure: stored JSON in, escaped markup out. Whatever is long is cut after a screenful, and says where it
goes on; the page fetches the rest when somebody asks for it.
"""
