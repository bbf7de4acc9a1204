"""Content of packed.json: the shards of a packed dataset, and where the bytes of each member are."""

from typing import Literal

from pydantic import Field

from hpcai.config.base import Count, Index, Name, Settings
from hpcai.config.benchmark import Split
from hpcai.data.manifest import Checksum, RelativePath
from hpcai.data.member_codec import Codec
from hpcai.data.table import Table
from hpcai.data.tabled import content_digest

NO_CONTENT = frozenset({"pack_s"})


class PackedMember(Settings):
    """One TFRecord file inside a shard."""

    name: RelativePath = Field(description="Name of the unpacked file, such as train/xyz.tfrecord.")
    offset: Index = Field(description="Start of its packed bytes in the shard.")
    packed_bytes: Count
    content_bytes: Count
    content_crc32c: Checksum
    record_offsets: tuple[Index, ...] = Field(description="Start of each record in the content.")


class PackedShard(Settings):
    """One archive; ``file`` is relative to the folder of packed.json."""

    file: RelativePath
    split: Split
    bytes: Count
    crc32c: Checksum
    members: Table[PackedMember]


class PackManifest(Settings):
    """All shards of a dataset."""

    schema_version: Literal[2] = 2
    dataset: Name
    manifest_digest: str
    codec: Codec
    level: int
    shards: tuple[PackedShard, ...]
    stored_bytes: Count = Field(description="Sample files as they lie in the dataset.")
    content_bytes: Count = Field(description="TFRecord files as they are staged.")
    packed_bytes: Count = Field(description="Shards.")
    compression_ratio: float = Field(description="content_bytes / packed_bytes.")
    pack_s: float

    @property
    def digest(self) -> str:
        """SHA-256 of the content, independent of the time that packing took."""
        return content_digest(self, NO_CONTENT)

    def members(self, split: Split) -> Table[PackedMember]:
        """Return the members of a split, sorted by name."""
        found = Table.joined(PackedMember, [shard.members for shard in self.shards if shard.split == split])
        return found.take(found.order("name"))
