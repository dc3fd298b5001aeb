"""Static files in production: named by their content, compressed, cached for ever."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class ModuleStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """Also rewrites the imports between ES modules.

    Without that, a module imported by two names (with and without the hash) would run twice, with two states.
    """

    support_js_module_import_aggregation = True
