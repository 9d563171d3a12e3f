"""The names of the context tools, texts for them, and their answers as a C# client reads them."""

SEARCH, INDEX = "rag_context_search", "rag_context_index"
HEALTH, STATS = "rag_context_health", "rag_context_stats"
SIX_KEYS = {"results", "latency", "fallback", "fallbackLevel", "circuitBreakerOpen", "totalIndexed"}
RETRY = "MongoDB connections should use retry logic with exponential backoff. Max retries: 5."
JACKPOT = "FireKirin jackpot threshold is set at $500. Major jackpot at $250."
TIMEOUT = "Selenium WebDriver timeout should be 30 seconds for page loads."
THRESHOLD = 5

# The classes of the contract (*context*, §8) as a C# client reads them, by the names that System.Text.Json finds in
# camel case.
CSHARP = {
    "RagSearchResult": {
        "results": list,
        "latency": float,
        "fallback": bool,
        "fallbackLevel": int,
        "circuitBreakerOpen": bool,
        "totalIndexed": int,
    },
    "RagStats": {
        "totalDocuments": int,
        "totalQueries": int,
        "avgLatency": float,
        "p95Latency": float,
        "p99Latency": float,
        "cacheHitRate": float,
        "fallbackRate": float,
        "queriesByAgent": dict,
    },
}


def parses(answer, fields):
    """Return whether C# could read the value as the type: a double may be written as an integer, an int must be one,
    and a bool is neither."""
    for name, kind in fields.items():
        value = answer[name]
        wanted = (int, float) if kind is float else kind
        assert isinstance(value, wanted), (name, value)
        assert isinstance(value, bool) == (kind is bool), (name, value)
