from tracetui.api import Part as Part
from tracetui.api import Slices as Slices
from tracetui.api import Trace as Trace
from tracetui.api import TraceError as TraceError
from tracetui.api import capture as capture
from tracetui.api import compare as compare
from tracetui.api import load as load
from tracetui.api import views as views

__version__: str
