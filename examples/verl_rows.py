"""Reads demonstrations exported as Parquet into verl's SFT trainer, configured with this file and the class below:

data.train_files=train.parquet data.custom_cls.path=verl_rows.py data.custom_cls.name=RetraceRows
"""

import json

from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset  # type: ignore[import-not-found]


class RetraceRows(MultiTurnSFTDataset):  # type: ignore[misc]  # verl ships no types
    """Messages and tools are JSON in the file: as Arrow columns, all tools would have the parameters of all others."""

    def _read_files_and_process(self) -> None:
        super()._read_files_and_process()
        chats = [[json.loads(message) for message in chat] for chat in self.dataframe[self.messages_key]]
        self.dataframe[self.messages_key] = self.messages = chats
        self.tools = [json.loads(tools) or None for tools in self.dataframe[self.tools_key]]
