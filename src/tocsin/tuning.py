"""The tuned constants, all in one place, each with how its value was measured.

"Not measured" means that no measurement is on record: the value was set once and never compared with others. Times are
processor time on a shared machine. "Range" workloads are `tocsin bench attributes`: 3 ranges of 10 attributes.

Kernels read these values as constants at compile time, and Numba caches a compiled kernel by the file that the kernel
is in: after a change here, delete the caches (`find src -name '*.nb[ic]' -delete`).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """What trades time against time or memory. No value changes an answer."""

    # Access pairs: where conjunctions are filed (conjunctions/pairs/access.py, build.py).

    look_cost: float = 24.0
    """What it costs an event to look into a table, in candidates verified. LOOK_COST_MEASURED"""
    cells_per_range: float = 3.2
    """The level of a range is the finest at which it is at most this many cells wide. CELLS_MEASURED"""
    level_bits: int = 2
    """Levels of one column differ by a factor of two to the power of this. Not measured."""
    expected_true_tests: float = 8.0
    """Tests that are TRUE for an event, before any event was seen. With it, 200,000 subscriptions to one word and a
    price range verify 330 candidates an event instead of 200,000 and match 12 times as fast; words by Zipf's law 9
    times; 20,000 words of equal rank as before. Other values were not measured."""
    max_rectangles: int = 64
    """A pair of unions makes at most this many rectangles; beyond it only the more selective union is an access. Not
    measured."""
    dense_cells: int = 1024
    """A table of so many cells or fewer has a bucket for each cell. Not measured."""
    dense_cells_per_rectangle: int = 4
    """So has one with at most this many cells a rectangle; larger tables hash their cells. Not measured."""

    # Access pairs: how a batch is matched (conjunctions/pairs/*_kernels.py, match.py).

    words_per_flush: int = 1024
    """Words of match bits that are collected before they become pairs: 16 kB, half of a first-level cache. Introduced
    with the vectors (30 to 12 µs an event, a million subscriptions, batches of 5,000); other values were not
    measured."""
    sparse_buckets: int = 5
    """Events are not sorted by bucket if a table has more than this many buckets an event. Not measured."""
    few_events: int = 8
    """Up to so many events of a bucket with a vector of postings are compared one by one, each with a vector of
    postings. A million range subscriptions, µs an event before and after: batches of 1,000 events 33 and 19, of 5,000
    15.1 and 11.5, of 20,000 6.2 and 5.8. Other values were not measured."""
    few_events_by_test: int = 4
    """Fewer events than this in a bucket of a table by tests are compared one by one. Not measured."""
    matches_per_event: int = 128
    """Matches an event for which there is room before the room must grow. Only what is used costs memory. The workload
    of a million range subscriptions has 119. Not measured."""

    # Texts (predicates/words, predicates/patterns).

    long_text: int = 16_384
    """A text with more characters is searched without the interpreter lock, also for a single event: 16,384 take some
    20 µs. Other values were not measured."""

    # What is taken of events before any was seen (index/build.py).

    attributes_of_an_event: int = 64
    """Attributes that an event has at most. Not measured: those of the field's workloads have 20 to 80."""

    # Bitmaps: rows and their cells (conjunctions/bitmaps/build.py).

    min_named: int = 32
    """A block has a row for a column that so many of its 4,096 conjunctions name; fewer are left to verification.
    Not measured: an OR costs 3 ns, a verification 25, so that it pays if it rules out one candidate in eight events."""
    min_named_dense: int = 8
    """So has a dense block, if so many of 4,096 places name it: a conjunction without a row for each predicate is
    verified whenever it is a candidate. A million conjunctions of 1 to 10 of 100 ranges, attributes by Zipf's law, µs
    an event in batches of 470 with 4, 8, 16 and 32: 235, 217, 313, 422; of 32: 483, 473, 618, 732."""
    named_per_cell: int = 16
    """A row has a cell for each so many conjunctions that name its column, or for half as many in dense blocks and
    where those of a block are expected to match one event in 96, and at most 64. µs an event with 16, 64 and 128:
    300,000 conjunctions of 10 of 20 ranges of width 0.4 10.9, 12.4 and 17.9; 100,000 of 5 of 20 of width 0.1 3.0, 3.6
    and 3.8. 64 takes a fifth to a quarter fewer bytes."""
    min_row_cells: int = 8
    """But at least so many. Not measured."""
    groups_in_a_class: int = 48
    """A run of so many groups or fewer is cut into single groups: little is left for a further column to sort. A
    million conjunctions of 10 of 20 ranges of width 0.4, groups that are alive for an event and µs an event without it,
    with 8, 16 and 24: 503, 492, 485, 481 and 17.3, 17.3, 16.9, 16.6; in another run with 24, 48 and 96: 481, 484, 502
    and 14.6, 14.6, 14.8; a million of 5 of 80 on events of 30: 443, 429, 391 and 21.4, 20.1, 19.9; 100,000 of 3 of 10
    of width 0.05: 33, 29, 26 groups."""
    dense_matches: float = 1 / 48
    """Conjunctions that are expected to match more than this share of the events stand behind the others, with the ends
    of their ranges: hardly a group of them fails as a whole. With 1/64, 1/48 and 1/32, a million conjunctions, µs an
    event in large batches and in batches of 32: 5 of 80 ranges of width 0.4 on events of 30 attributes 59, 24, 36 and
    193, 107, 132; 1 to 10 of 100 ranges of any width 217, 235, 224 and 473, 477, 494."""
    dense_predicates: int = 5
    """If conjunctions have more predicates, which makes it dear to verify them, a share that is as many times smaller
    is enough, and"""
    dense_columns: int = 20
    """likewise, up to half, if there are fewer columns, which makes dense blocks cheap. µs an event in batches of
    2,000, of 32 and alone, verified and in dense blocks: a million conjunctions of 20 of 30 ranges of width 0.8 (one
    event in 66 is expected to match) 580 and 282, 823 and 330, 865 and 348; 300,000 of 3 of 10 of width 0.2 (one in 59;
    by access pairs before) 61 and 19, 135 and 33, 170 and 59; of 10 of 20 of width 0.55 (one in 82) 34 and 32, 78 and
    92, 74 and 118; of width 0.5 (one in 133, verified) 20 and 35, 40 and 100, 51 and 127."""
    matches_in_order: float = 1 / 4
    """If all are dense and expected to match more than this share of the events, they stay in the order of their
    numbers instead of that of the columns they name. µs an event in large batches, in order and not: 5 of 30 ranges of
    width 0.8, expected to match 0.32, 287 and 385; 5 of 20 of width 0.9 (0.46) 224 and 519; of width 0.7 (0.22) 306 and
    309; of width 0.5 (0.09) 246 and 192."""
    min_dense: int = 512
    """If there are fewer of them, they stand among the others. Not measured: a row of a block costs an event some 20 ns
    however few places it has, a candidate 25 ns."""
    many_dense: int = 1 << 16
    """So many of them are found as lists by a single event, too, which costs it some 20 µs more and a match 2 ns less.
    Other values were not measured."""
    dense_optimism: float = 1.25
    """Selectivities are guesses. Where these decide whether matches are frequent, ranges are taken to accept so many
    times more: of 0.8 of the values, 0.65 of the events are expected (half as the ends are spread, half evenly)."""
    sweep_events: int = 96
    """Dense blocks are swept if a batch has at least so many events (match.py). A million conjunctions of 5 of 20
    ranges of width 0.5, µs an event by marks and swept: batches of 32 257 and 350, of 64 218 and 255, of 128 177 and
    162."""
    most_bytes_of_bits: int = 1 << 28
    """More events are matched one part after the other: 2,000 events of a million subscriptions have 250 MB of bits."""

    # The choice between access pairs and bitmaps (conjunctions/estimate.py, choose.py), nanoseconds an event.
    # From 300,000 random conjunctions of 3 to 10 ranges of width 0.03 to 0.2 (docs/internals/bitmaps.md has the table).

    posting_ns: float = 1.5
    """A candidate by access pairs, compared in vectors: 1.1 to 2.3 without rest lists, where looks cost little."""
    rest_ns: float = 50.0
    """A rest list: 50 to 130, as what is left of the time with ten predicates after the postings."""
    short_codes_pay: float = 2.0
    """Access pairs without rest lists read short codes and share layouts; so bitmaps must be this many times cheaper.
    With it, `tocsin bench attributes` stays with access pairs. Other values were not measured."""
    pair_ns: float = 10.0
    """A match by access pairs: it is written as a pair, counted and grouped by event. 100,000 conjunctions of 1 to 10
    ranges of any width, 3,600 matches an event: with it all are in bitmaps, 129 µs an event; 190 without. Other values
    were not measured."""
    look_ns: float = 100.0
    """A look into a table of access pairs, in batches of 1,000 to 3,000 events; 45 tables, µs an event by access pairs
    and in bitmaps: 200,000 conjunctions of 3 of 10 ranges of width 0.03 in batches of 1,000 22.5 and 4.5, of 3,000 10.8
    and 3.1; of width 0.1 22.9 and 13.3, 17.3 and 13.2; 30,000 of width 0.03 9.3 and 2.9, 5.3 and 1.9; 200,000 of 2 of
    10 of width 0.03 29.6 and 20.8, 17.2 and 20.4; 1,000,000 of 3 of 10 of width 0.046 23.6 and 22.0, 13.9 and 16.7.
    With it and the next two, the first and the third go into bitmaps; the others stay with access pairs."""
    bitmaps_pay: float = 1.25
    """So many times cheaper must bitmaps be, looks counted, for all to go there. By how many times they are estimated
    to be, with µs an event by access pairs and in bitmaps in batches of 2,000, of 32 and alone: 300,000 of 3 of 10
    ranges of width 0.03 1.48: 8.3 and 2.4, 21 and 13, 18 and 16; of 2 of 10 of width 0.002 1.34: 9.3 and 3.5, 22 and
    14, 19 and 16; 100,000 of these 1.03: 1.2 and 1.5, 7 and 11, 15 and 15; a million of 3 of 10 of width 0.05 0.75: 9.6
    and 10.4, 38 and 25, 29 and 27."""
    least_saving_ns: float = 1000.0
    """And so much must it save an event: 10,000 pairs of equalities, in a dozen tables, take as long there in batches,
    and a single event 58 µs instead of 50. Other values were not measured."""
    block_ns: float = 40.0
    """A block of bitmaps, dead or not: 3 to 5 µs an event for 74 blocks of narrow ranges, most of them dead."""
    vector_ns: float = 3.3
    """The OR of one vector of 512 bits: 45 ns for a group of 14 rows."""
    verify_ns: float = 25.0
    """A candidate of bitmaps: at most 24 with three predicates; with ten 210, and 70 with prefetching."""
    certain_ns: float = 8.0
    """A candidate of a block with ends, most of which need no verification: 8 to 13 for 6,400 matches an event of
    20,000 conjunctions, before there were ends."""
    min_in_bitmaps: int = 512
    """Fewer conjunctions than this are not worth bitmaps beside access pairs. 5,000 were matched 2.5 to 15 times as
    fast in bitmaps; 900 of 10 of 20 ranges in batches of 512 4.5 µs an event instead of 12, 58 instead of 54 for a
    single event; 300 of them 57 instead of 45 for a single event."""
    left_by_pairs: int = 8
    """If fewer than one in so many would be left to access pairs, they go into bitmaps as well. Not measured."""

    # Conjunctions that most events satisfy (conjunctions/common/index.py).

    min_common: int = 64
    """Fewer conjunctions that most events satisfy are not worth blocks. Not measured."""
    min_common_share: float = 0.25
    """A conjunction may be in a block if it, and all together, are expected to hold for this share of the events. Not
    measured."""

    # 16-bit codes (predicates/ranges/quantize.py, conjunctions/pairs/build.py).

    min_even_codes: int = 4096
    """A column gets a quantizer if two of its constants share a short code no more often than if there were so many
    codes, all equally filled. Not measured."""
    tail_bits: int = 10
    """One constant in two to the power of this may lie beyond either end of a quantizer. Not measured; found with
    prices that have a long tail, whose ends differed from segment to segment."""
    end_steps: int = 8
    """The ends of a quantizer are multiples of a power of two that fits this often into the span of the constants, so
    that sets of similar constants get the same quantizer. Not measured."""
    crowd: int = 16
    """A segment reads the full codes of all events if more than this many times (1 + the mean) of its ranges end at one
    short code: a million ranges `price >= 0` and 64 events on that end needed 5 GB for undecided pairs. Other values
    were not measured."""

    # Attributes that few subscriptions name (index/rare_attributes.py).

    common_attributes: int = 64
    """At least so many attributes, those that most ranges name, have a column of codes. 100,000 range
    subscriptions beside 50,000 on an attribute each, µs an event: 442 without rare attributes, 4.0 with 256 common
    ones, 2.6 with 64."""
    rare_ranges: int = 64
    """Attributes that more ranges name are never rare: an event that has one is compared with each of its ranges.
    100,000 subscriptions of 5 ranges of width 0.8, events of 20 attributes, µs an event with rare attributes and
    without: 654 and 252 with 3,000 attributes of 167 ranges each, 955 and 796 with 10,000 of 50, most of it to read
    columns."""

    # Tests that conjunctions demand together (index/combined_tests.py).

    min_combined: int = 16
    """So many conjunctions that demand the same tests are filed under all of them. Not measured."""
    min_combined_share: float = 0.1
    """If their ranges alone hold for at least this share of the events; else ranges are the better access. Not
    measured."""
    max_combinations: int = 64
    """At most so many: every event is compared with each. Not measured."""

    # Codes of numbers (predicates/ranges/kernels.py).

    guide_min_constants: int = 64
    """Fewer constants than this are searched without a guide. The guide took the encoding of 10 attributes from 1.5 to
    0.6 µs an event (300,000 subscriptions); other values were not measured."""
    guide_compared: int = 4
    """Constants behind the guide's that are compared without a branch before the rest of the bucket is searched. With
    one step at a time for all values, nanoseconds a value: 30.2 to 8.6 among 58,000 constants, 64.5 to 38.8 among
    460,000. Other values were not measured."""

    # Segments that match together (index/shared_layout.py).

    shared_layout_min_events: int = 1024
    """For fewer events than this, each segment lays out its own. Sharing took ten segments of a million range
    subscriptions from 18.5 to 10.1 µs an event in batches of 20,000; other values were not measured."""
    shared_layout_codes: int = 1 << 21
    """Short codes that are laid out at a time, 4 MB, so that they are still in a cache for the last segment. Against
    28 MB for all tables at once: 6.6 to 5.7 µs an event for the scans of ten segments."""

    # Boolean expressions (language/normalise.py).

    max_product: int = 16
    """An AND of ORs is multiplied into an OR of at most this many conjunctions, which are filed one by one; a larger
    one is kept as a tree and verified. Not measured."""
    max_growth: int = 4
    """Or into more, if they have at most this many times the predicates of the text: `x = 1 AND (… OR …)` is
    not worth a tree. Not measured."""

    max_cover: float = 0.1
    """A tree is filed if its cover is expected to hold at most so often an event; else every event verifies it
    (conjunctions/boolean/build.py). 2,000 random trees of 10 to 1,000 predicates in batches of 1,000, nanoseconds a
    tree and event: 41.5 with 0.02, 41.9 with 0.1, 48.2 with 0.5; 200 trees of 1,000: 104, 98, 114. One run each."""

    # Equal and covered conjunctions (conjunctions/dedupe.py).

    max_compared: int = 64
    """The conjunctions of one subscription are compared in pairs to find covered ones, unless there are more than this.
    Not measured."""

    # The best k (ranking/select.py); docs/internals/ranking.md has the measurements as a table.

    first_layer_matches: float = 3.0
    """The first layer holds this many times k matches of a typical event. A million range subscriptions with 1,250
    matches an event, k = 20: with 2k expected matches 95 percent of the events are done after the first layer, 40 times
    as fast as matching all; with 4k 99.8 percent, 17 times."""
    layer_growth: int = 16
    """How many times as large each layer is as the one before: so there are two or three. With three and few matches an
    event costs 1.3 to 1.4 times as much as matching all, with two 1.0 times."""
    layers_pay: float = 8.0
    """Layers are used where a typical event has more than this many times k matches. Not measured."""

    # Scores that are all equal (index/constant_column.py).

    max_constant_column: int = (1 << 22) - 1
    """Longer columns of one value repeat one of this length, so that what is kept of a value has 64 MB at most. Filling
    a new one took a third of the time of a batch with 20,000 matches an event."""

    # Events of concurrent requests (serve/match_queue.py).

    match_together: int = 16
    """From so many events on that arrive at once, a worker matches them as one batch. 50,000 subscriptions on three
    attributes: 38 µs one by one; 60 µs an event in a batch of 8, 52 of 12, 28 of 16, 14 of 32. 20,000 alerts on quotes
    and news: 215 µs one by one; 201 µs in a batch of 8, 113 of 16, 68 of 32."""
    commit_interval_s: float = 0.05
    """Changes that keep coming are committed at most this often (serve/writer.py); the first after a pause at once. 200
    changes a second on 100,000 alerts made 85 commits a second without it, each a segment that every worker maps and
    every match visits: up to 20 segments beside the large one."""


TUNING = Tuning()
