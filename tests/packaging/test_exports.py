"""What other libraries of a process can see of the extension."""
from pathlib import Path

from elftools.elf.elffile import ELFFile

from dglke_frugal import _native


def test_the_extension_shows_nothing_but_the_module():
    """Its copies of what torch has, too, such as the C++ library's, would be taken for torch's where it comes first."""
    with Path(_native.__file__).open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        seen = [symbol.name for symbol in symbols
                if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL"]
    assert seen == ["PyInit__native"]
